"""URLs of comments."""

from django.urls import path

from elevata.comments import views

urlpatterns = [
    path("comments/users/", views.comment_users, name="comment_users"),
    path("comments/<uuid:key>/edit/", views.CommentEdit.as_view(), name="comment_edit"),
    path("comments/<uuid:key>/delete/", views.CommentDelete.as_view(), name="comment_delete"),
    path("comments/<slug:kind>/<uuid:key>/", views.CommentList.as_view(), name="comment_list"),
]
